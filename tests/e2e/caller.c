/* Asks once for each key on standard input, and says "allowed remaining" for each. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ratelimit.h"

int main(int argc, char **argv) {
    rl_store *store = NULL;
    rl_policy *policy = NULL;
    rl_limiter *limiter = NULL;
    char key[256];

    if (argc != 2 || rl_store_open(argv[1], &store) != RL_OK ||
        rl_policy_token_bucket(100, 1.0, 86400.0, false, &policy) != RL_OK ||
        rl_limiter_new((const rl_policy *const *)&policy, 1, store, NULL, &limiter) != RL_OK) {
        fprintf(stderr, "%s\n", argc == 2 ? rl_last_error() : "usage: caller DSN");
        return 1;
    }
    while (fgets(key, sizeof key, stdin) != NULL) {
        rl_decision decision;
        size_t length = strcspn(key, "\n");
        if (rl_allow(limiter, (const uint8_t *)key, length, 1, &decision) != RL_OK) {
            fprintf(stderr, "%s\n", rl_last_error());
            return 1;
        }
        printf("%d %" PRIu64 "\n", decision.allowed, decision.remaining);
        fflush(stdout);
    }
    rl_limiter_free(limiter);
    rl_policy_free(policy);
    rl_store_free(store);
    return 0;
}
