/* The suites, each in the file of its name. */
#ifndef TESTS_H
#define TESTS_H

/* Every shared vector, on every store; `folder` holds the folders of files. */
void vectors(const char *folder);

/* The verbs by the store's own clock: reserve, wait, refund, idempotency tokens. */
void verbs(void);

/* Several policies in one limiter: all or nothing, a key and a decision for each. */
void several(void);

/* Many calls at once: an answer for each, one exchange for all. */
void batch(void);

/* Numbers, names and texts that make a policy, and those that make none. */
void policies(void);

/* Wrong arguments are refused with a sentence, before anything is asked or changed. */
void arguments(void);

/* Handles, options and error texts: who owns what, and for how long. */
void ownership(void);

/* Decisions as HTTP header fields. */
void headers(void);

/* Who a request comes from, behind proxies. */
void client_ip(void);

/* What limiters have done, and how full stores are. */
void metrics(void);

/* Callbacks hear of decisions, and of what a store owes. */
void events(void);

/* Units that a host takes in advance. */
void leases(void);

/* Calls to somebody's API: waits, options of one request, looks at the state, a store that is away. */
void governor(void);

/* Many threads and many processes, one budget. */
void concurrency(void);

/* Locks: one holder per key, whoever dies. */
void locks(void);

/* At most so many under way at a time, whoever dies. */
void in_flight(void);

/* Servers that are silent, late, away, or have forgotten the script. */
void faults(void);

/* A million calls: memory and descriptors stay flat. */
void long_run(void);

#endif
