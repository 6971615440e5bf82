// What the tests ask of the fakes, and of the board that stands beside them.
#pragma once

#include <cstddef>
#include <string>

/// Threads that the fake still starts; -1: any number.
extern int g_threads_left;
inline bool fake_may_start() { return g_threads_left < 0 || g_threads_left-- > 0; }

/// What the port has written to the board since the last call; ports that write to stderr or printk have none.
std::string take_written();
