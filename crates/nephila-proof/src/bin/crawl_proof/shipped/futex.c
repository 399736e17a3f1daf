/* Timed waits of Rust's standard library under a clock that libfaketime changes.
 *
 * They are system calls of their own, with the moment of their end on the monotonic clock. libfaketime (0.9.10) changes what a
 * program reads from that clock and leaves these calls alone, so the kernel waits until its own clock has come to a moment
 * that the program took from the other one: hours too long. Loaded before libfaketime, this turns the moment into a wait,
 * divides it by the rate of the clock, and wakes at least twice a second, in case the clock was set meanwhile. A thread that
 * is woken for nothing looks at the clock and waits again. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

#define SECOND 1000000000LL
#define WAIT_MAX (SECOND / 2)

typedef long (*call_t)(long, long, long, long, long, long, long);

static long long nanoseconds(const struct timespec *time) { return time->tv_sec * SECOND + time->tv_nsec; }

long syscall(long number, ...) {
    static call_t call;
    static long rate;
    if (!call) {
        const char *said = getenv("CRAWL_PROOF_RATE");
        rate = said ? atol(said) : 1;
        call = (call_t)dlsym(RTLD_NEXT, "syscall");
    }
    va_list list;
    va_start(list, number);
    long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long);
    long d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
    va_end(list);
    int is_wait = number == SYS_futex && (b & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET && d;
    if (!is_wait || (b & FUTEX_CLOCK_REALTIME)) return call(number, a, b, c, d, e, f);
    struct timespec now, until;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long wait = (nanoseconds((const struct timespec *)d) - nanoseconds(&now)) / rate;
    int is_cut = wait > WAIT_MAX;
    if (is_cut) wait = WAIT_MAX;
    if (wait < 0) wait = 0;
    call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&until, 0, 0, 0, 0);
    wait += nanoseconds(&until);
    until.tv_sec = wait / SECOND;
    until.tv_nsec = wait % SECOND;
    long ended = call(number, a, b, c, (long)&until, e, f);
    /* Not over yet: as if somebody had woken it. */
    return is_cut && ended < 0 ? 0 : ended;
}
