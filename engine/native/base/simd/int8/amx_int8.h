#pragma once
#include "base/simd/int8/avx512vnni.h"
