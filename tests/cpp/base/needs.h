/// What a test needs and not every target has. Where it is missing, the test skips with the reason.
#pragma once

#include <gtest/gtest.h>

#if defined(__EMSCRIPTEN__) && !defined(__EMSCRIPTEN_PTHREADS__)
#define ET_NEEDS_THREADS() GTEST_SKIP() << "WebAssembly that is built without threads starts none"
#else
#define ET_NEEDS_THREADS() static_cast<void>(0)
#endif

#if defined(__EMSCRIPTEN__)
#define ET_NEEDS_PAGES() GTEST_SKIP() << "WebAssembly's memory has no resident pages, and none goes back"
#define ET_NEEDS_REDIRECTION() GTEST_SKIP() << "Emscripten's files of the machine: dup2 does not redirect stderr"
#else
#define ET_NEEDS_PAGES() static_cast<void>(0)
#define ET_NEEDS_REDIRECTION() static_cast<void>(0)
#endif
