// Shorthands for the process's pool, the same with and without threads.

#include "threads/thread_pool.h"

namespace et::threads {

void set_num_threads(size_t count) { default_pool()->set_num_threads(count); }

size_t num_threads() { return default_pool()->num_threads(); }

}  // namespace et::threads
