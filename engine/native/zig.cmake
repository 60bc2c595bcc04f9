# Builds for another machine by zig: -DPALM_ZIG=path/to/zig -DPALM_TARGET=aarch64-linux-gnu.2.17
# -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64. C++'s own library is linked in.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES PALM_ZIG PALM_TARGET)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_CXX_COMPILER "${PALM_ZIG}" c++ -target ${PALM_TARGET})
# The same bytes in whatever folder.
set(CMAKE_CXX_FLAGS_INIT "-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.")
# zig's own, which are words behind its name.
set(CMAKE_AR "${PALM_ZIG}")
set(CMAKE_RANLIB "${PALM_ZIG}")
set(CMAKE_CXX_ARCHIVE_CREATE "<CMAKE_AR> ar qc <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_APPEND "<CMAKE_AR> ar q <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "<CMAKE_RANLIB> ranlib <TARGET>")
# The linker writes ids and signatures itself.
set(CMAKE_INSTALL_NAME_TOOL true)
set(CMAKE_OSX_SYSROOT "")
set(CMAKE_OSX_DEPLOYMENT_TARGET "")
