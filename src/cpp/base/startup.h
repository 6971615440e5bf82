/// ET_STARTUP: on the declaration of a function that runs once and early, such as those that hand out a file's table of
/// kernels.
///
/// The linker lays such functions side by side, where static constructors stand. Each in its file's place among
/// megabytes of kernels, they brought 1.6 MB of code into a process that runs a model of one layer. The system maps the
/// 16 pages around each page that is touched.
#pragma once

#if defined(__ELF__)
#define ET_STARTUP [[gnu::section(".text.startup")]]
#else
#define ET_STARTUP
#endif
