# Builds for another machine by zig: -DPALM_ZIG=path/to/zig -DPALM_TARGET=aarch64-linux-gnu.2.17
# -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64. C++'s own library is linked in.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES PALM_ZIG PALM_TARGET)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_CXX_COMPILER "${PALM_ZIG}" c++ -target ${PALM_TARGET})
# CMake takes each for a program without a word behind it.
foreach(tool ar ranlib)
  string(TOUPPER CMAKE_${tool} name)
  set(${name} ${CMAKE_BINARY_DIR}/zig-${tool})
  file(WRITE ${${name}} "#!/bin/sh\nexec '${PALM_ZIG}' ${tool} \"$@\"\n")
  file(CHMOD ${${name}} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endforeach()
# The linker writes ids and signatures itself.
set(CMAKE_INSTALL_NAME_TOOL true)
set(CMAKE_OSX_SYSROOT "")
set(CMAKE_OSX_DEPLOYMENT_TARGET "")
