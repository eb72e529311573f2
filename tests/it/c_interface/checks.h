/* What the tests in C check by: the first thing that is not right ends the program, and says where it stands. */

#ifndef CHECKS_H
#define CHECKS_H

#include <shardwright.h>
#include <stdio.h>
#include <stdlib.h>

#define RIGHT(call)                                                                                                   \
    do {                                                                                                              \
        const sw_status status_of_call = (call);                                                                      \
        if (status_of_call != SW_OK) {                                                                                \
            fprintf(stderr, "line %d: %s: %d, %s\n", __LINE__, #call, (int)status_of_call, sw_last_error());          \
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
