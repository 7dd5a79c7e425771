package main

import (
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/bench/report"
)

// cpuTime is time of processors. The sum is exact. How it is divided the kernel finds
// out by looking 100 to 1,000 times a second, so that only that of a long time is worth
// anything.
type cpuTime struct{ user, system time.Duration }

// divisible is a time long enough: where the kernel looks 250 times a second, it is off
// by one or two hundredths.
const divisible = 3 * time.Second

// cpuOfProcess is what this process has used so far, all threads together.
func cpuOfProcess() cpuTime {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return cpuTime{} // which only a wrong argument can cause
	}
	return cpuTime{time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())}
}

func (c cpuTime) since(before cpuTime) cpuTime {
	return cpuTime{c.user - before.user, c.system - before.system}
}

func (c cpuTime) all() time.Duration { return c.user + c.system }

// share is the part of it that is not the kernel's.
func (c cpuTime) share() report.Factor { return report.Ratio(c.user, c.all()) }

func sum(list []cpuTime) (total cpuTime) {
	for _, c := range list {
		total.user, total.system = total.user+c.user, total.system+c.system
	}
	return total
}
