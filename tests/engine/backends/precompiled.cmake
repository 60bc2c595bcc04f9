# As CMAKE_PROJECT_INCLUDE: what all files of a runtime include is read once, as that is most of the work.
cmake_language(DEFER CALL target_precompile_headers ${PROJECT_NAME} PRIVATE
               <algorithm> <cmath> <cstring> <base/step.h>)
