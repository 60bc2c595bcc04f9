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
# Read behind what CMake knows of Windows, which has archives of its own.
set(CMAKE_USER_MAKE_RULES_OVERRIDE_CXX "${CMAKE_CURRENT_LIST_DIR}/zig_archives.cmake")
# The linker writes ids and signatures itself.
set(CMAKE_INSTALL_NAME_TOOL true)
set(CMAKE_OSX_SYSROOT "")
set(CMAKE_OSX_DEPLOYMENT_TARGET "")
