#pragma once
#include "base/simd/amx.h"
#include "base/simd/avx512vnni.h"
