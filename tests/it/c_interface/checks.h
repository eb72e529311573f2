/* What the tests in C check by: the first thing that is not right ends the program, and says where it stands. */

#ifndef CHECKS_H
#define CHECKS_H

#include <shardwright.h>
#include <stdio.h>
#include <stdlib.h>

#define RIGHT(call)                                                                                                   \
    do {                                                                                                              \
        if ((call) != SW_OK) {                                                                                        \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, sw_last_error());                                   \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

#define HOLDS(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            fprintf(stderr, "line %d: not true: %s (%s)\n", __LINE__, #condition, sw_last_error());                   \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

#endif
