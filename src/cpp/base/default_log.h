/// The hook of a process that has chosen none.
///
/// For: the host layer (runtime/host), whose users see messages without asking for them. Not for: applications, which
/// call set_log_hook (log.h), and what runs on a microcontroller, which stays silent until it does.
#pragma once

#include "base/log.h"

namespace et {

/// Installs `hook` unless set_log_hook has been called before, with nullptr too. Threads: safe at any time.
void set_default_log_hook(LogHook hook);

}  // namespace et
