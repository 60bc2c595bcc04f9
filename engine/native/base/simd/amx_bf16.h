#pragma once
#include "base/simd/amx.h"
#include "base/simd/avx512bf16.h"
