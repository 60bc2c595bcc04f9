#pragma once
#include "base/simd/wasm.h"
