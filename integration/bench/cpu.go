package main

import (
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/bench/report"
)

// cpuTime is processor time. The sum is exact. The kernel estimates its parts by sampling
// 100 to 1,000 times a second, so that they are only meaningful over a long time.
type cpuTime struct{ user, system time.Duration }

// minCPUTime is long enough for an error of one or two hundredths, at 250 samples a second.
const minCPUTime = 3 * time.Second

// cpuOfProcess returns the processor time of all threads of this process so far.
func cpuOfProcess() cpuTime {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return cpuTime{} // only for a wrong argument
	}
	return cpuTime{time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())}
}

func (c cpuTime) since(before cpuTime) cpuTime {
	return cpuTime{c.user - before.user, c.system - before.system}
}

func (c cpuTime) all() time.Duration { return c.user + c.system }

// share returns the part outside of the kernel.
func (c cpuTime) share() report.Factor { return report.Ratio(c.user, c.all()) }

func sum(list []cpuTime) (total cpuTime) {
	for _, c := range list {
		total.user, total.system = total.user+c.user, total.system+c.system
	}
	return total
}
