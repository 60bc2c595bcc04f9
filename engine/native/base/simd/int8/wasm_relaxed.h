#pragma once
#include "base/simd/int8/wasm.h"
