// Included before each kernel that multiplies tiles (AMX). GCC's macro up to version 12 does not say that a tile is
// loaded from memory, so that stores into a buffer of the kernel's own, which only such a load reads, are left out.
#pragma once

#include <immintrin.h>

#if defined(__GNUC__) && !defined(__clang__)
#undef _tile_loadd
#define _tile_loadd(tile, base, stride) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile::"r"((const void*)(base)), "r"((long)(stride)) : "memory")
#endif
