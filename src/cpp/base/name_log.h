/// What builds without texts still say: the name of the operator that failed.
///
/// For: the runtime, where ET_STRIP_MESSAGES removes the message that has the name. Not for: builds with texts.
///
/// Place: log.cpp has it.
#pragma once

namespace et {

/// Gives the log hook a name as a whole message. Allocates nothing and formats nothing.
void log_name(const char* name);

}  // namespace et
