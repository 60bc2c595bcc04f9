# Builds for iPhones and iPads on a Mac with Xcode, or with -DPALM_SIMULATOR=ON for their simulator:
# a framework whose bundle identifier begins with -DPALM_IDENTIFIER=com.example.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES PALM_SIMULATOR)
set(CMAKE_SYSTEM_NAME iOS)
# CMake does not tell it from the architecture.
set(CMAKE_SYSTEM_PROCESSOR arm64)
set(CMAKE_OSX_ARCHITECTURES arm64)
set(CMAKE_OSX_DEPLOYMENT_TARGET 13.0 CACHE STRING "the oldest iOS")
set(CMAKE_OSX_SYSROOT iphoneos)
if(PALM_SIMULATOR)
  set(CMAKE_OSX_SYSROOT iphonesimulator)
endif()
set(CMAKE_FRAMEWORK ON)
set(MACOSX_FRAMEWORK_BUNDLE_VERSION 1.0)
set(MACOSX_FRAMEWORK_SHORT_VERSION_STRING 1.0)
if(PALM_IDENTIFIER)
  # Identifiers have no underscores.
  string(REPLACE "_" "-" project "${PROJECT_NAME}")
  set(MACOSX_FRAMEWORK_IDENTIFIER "${PALM_IDENTIFIER}.${project}")
endif()
