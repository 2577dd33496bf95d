/* The program plumb-guard. In a static build, plumb itself is it (src/cli/main.c). */
#include "plumb.h"

int main(int argc, char **argv) {
    return plumb_guard_main(argc, argv);
}
