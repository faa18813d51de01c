/* Asks once for each key on standard input, and says for each "allowed", "denied" or "away" (the store gave no answer),
 * what remains, and how many microseconds the call took. */
#define _POSIX_C_SOURCE 200112L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ratelimit.h"

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int main(int argc, char **argv) {
    rl_store *store = NULL;
    rl_policy *policy = NULL;
    rl_limiter *limiter = NULL;
    char key[256];

    if (argc != 3 || rl_store_open(argv[1], &store) != RL_OK ||
        rl_policy_token_bucket(strtoul(argv[2], NULL, 10), 1.0, 86400.0, false, &policy) != RL_OK ||
        rl_limiter_new((const rl_policy *const *)&policy, 1, store, NULL, &limiter) != RL_OK) {
        fprintf(stderr, "%s\n", argc == 3 ? rl_last_error() : "usage: caller DSN CAPACITY");
        return 1;
    }
    while (fgets(key, sizeof key, stdin) != NULL) {
        rl_decision decision = {0};
        size_t length = strcspn(key, "\n");
        int64_t started = now_us();
        rl_status status = rl_allow(limiter, (const uint8_t *)key, length, 1, &decision);
        int64_t took = now_us() - started;
        if (status != RL_OK && status != RL_ERR_STORE_UNAVAILABLE) {
            fprintf(stderr, "%s\n", rl_last_error());
            return 1;
        }
        const char *outcome = status != RL_OK ? "away" : decision.allowed ? "allowed" : "denied";
        printf("%s %" PRIu64 " %" PRId64 "\n", outcome, decision.remaining, took);
        fflush(stdout);
    }
    rl_limiter_free(limiter);
    rl_policy_free(policy);
    rl_store_free(store);
    return 0;
}
