// The size of a C++ program that does nothing: start-up code, which is not the runtime's.

int main() { return 0; }
