/* Does what each line of standard input says, and answers with a line:
 *
 * `lock KEY`, `lease KEY`: the holder's text, or none. `unlock KEY TEXT`, `return KEY TEXT`: whether it was held.
 * `count KEY FILE TIMES`: adds so often one to the number in a file under a lock. `enter KEY FOLDER TIMES`: enters a folder
 * so often under a lease, and tells how many were inside at most. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ratelimit.h"

static rl_lock *lock;
static rl_concurrency *limited;

static void must(bool good, const char *what) {
    if (!good) {
        fprintf(stderr, "%s: %s\n", what, rl_last_error());
        exit(1);
    }
}

static void count(const char *key, const char *path, int times) {
    for (int turn = 0; turn < times; turn++) {
        char holder[RL_HOLDER_LEN];
        bool done = false;
        long number = 0;
        must(rl_lock_acquire(lock, (const uint8_t *)key, strlen(key), 600, RL_NEVER, holder, &done) == RL_OK && done, "lock");
        FILE *file = fopen(path, "r");
        must(file != NULL && fscanf(file, "%ld", &number) == 1 && fclose(file) == 0, path);
        file = fopen(path, "w");
        must(file != NULL && fprintf(file, "%ld", number + 1) > 0 && fclose(file) == 0, path);
        must(rl_lock_release(lock, (const uint8_t *)key, strlen(key), holder, &done) == RL_OK && done, "unlock");
    }
}

static int inside(const char *folder) {
    int entries = 0;
    DIR *open = opendir(folder);
    must(open != NULL, folder);
    for (struct dirent *entry = readdir(open); entry != NULL; entry = readdir(open)) {
        entries += entry->d_name[0] != '.';
    }
    closedir(open);
    return entries;
}

static int enter(const char *key, const char *folder, int times) {
    char place[512];
    int most = 0;
    snprintf(place, sizeof place, "%.400s/%ld", folder, (long)getpid());
    for (int turn = 0; turn < times; turn++) {
        char lease[RL_HOLDER_LEN];
        bool done = false;
        must(rl_concurrency_acquire(limited, (const uint8_t *)key, strlen(key), RL_NEVER, lease, &done) == RL_OK && done, "lease");
        FILE *mine = fopen(place, "w");
        must(mine != NULL && fclose(mine) == 0, place);
        int now = inside(folder);
        most = now > most ? now : most;
        must(unlink(place) == 0, place);
        must(rl_concurrency_release(limited, (const uint8_t *)key, strlen(key), lease, &done) == RL_OK && done, "return");
    }
    return most;
}

int main(int argc, char **argv) {
    rl_store *store = NULL;
    char line[1024], verb[16], key[128], second[512];

    must(argc == 3, "usage: holder DSN LIMIT");
    must(rl_store_open(argv[1], &store) == RL_OK && rl_lock_new(store, &lock) == RL_OK, "store");
    must(rl_concurrency_new(strtol(argv[2], NULL, 10), 600, store, "e2e", &limited) == RL_OK, "limit");
    while (fgets(line, sizeof line, stdin) != NULL) {
        char holder[RL_HOLDER_LEN] = "";
        int times = 0;
        bool done = false;
        sscanf(line, "%15s %127s %511s %d", verb, key, second, &times);
        const uint8_t *bytes = (const uint8_t *)key;
        size_t length = strlen(key);
        if (strcmp(verb, "lock") == 0) {
            must(rl_lock_acquire(lock, bytes, length, 600, 0, holder, &done) == RL_OK, verb);
            puts(done ? holder : "none");
        } else if (strcmp(verb, "unlock") == 0) {
            must(rl_lock_release(lock, bytes, length, second, &done) == RL_OK, verb);
            puts(done ? "yes" : "no");
        } else if (strcmp(verb, "lease") == 0) {
            must(rl_concurrency_acquire(limited, bytes, length, 0, holder, &done) == RL_OK, verb);
            puts(done ? holder : "none");
        } else if (strcmp(verb, "return") == 0) {
            must(rl_concurrency_release(limited, bytes, length, second, &done) == RL_OK, verb);
            puts(done ? "yes" : "no");
        } else if (strcmp(verb, "count") == 0) {
            count(key, second, times);
            printf("%d\n", times);
        } else {
            printf("%d\n", enter(key, second, times));
        }
        fflush(stdout);
    }
    rl_concurrency_free(limited);
    rl_lock_free(lock);
    rl_store_free(store);
    return 0;
}
