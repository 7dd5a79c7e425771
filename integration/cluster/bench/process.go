package main

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/cluster/daemon"
	"kube-vmap/integration/process"
)

// timedProcess is a program that runs on the node.
type timedProcess struct {
	*daemon.Daemon
	began time.Time
}

// patience is the limit for everything that is awaited.
const patience = 10 * time.Minute

func (w *world) start(ctx context.Context, program string, args ...string) (*timedProcess, error) {
	began := time.Now()
	d, err := daemon.Start(ctx, process.Config{Program: program, Host: w.lab.Node.Host, Args: args})
	if err != nil {
		return nil, err
	}
	return &timedProcess{d, began}, nil
}

// cleanup removes kube-vmap's tables from the kernel.
func (w *world) cleanup(ctx context.Context) error {
	if out, err := w.lab.Node.Command(ctx, w.programs.kubeVMap, "cleanup", "--force").CombinedOutput(); err != nil {
		return fmt.Errorf("remove the rules: %w\n%s", err, out)
	}
	return nil
}

// awaitLine waits for a line of the process's log and returns how long after its start it
// was written.
func (p *timedProcess) awaitLine(ctx context.Context, message string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	line, err := p.AwaitLog(ctx, 0, fmt.Sprintf("%q in the log", message), process.Message(message))
	if err != nil {
		return 0, err
	}
	return p.after(line)
}

// line is [timedProcess.awaitLine] for a line that must exist already.
func (p *timedProcess) line(message string) (time.Duration, error) {
	for _, line := range p.Log.Entries(0) {
		if line["msg"] == message {
			return p.after(line)
		}
	}
	return 0, fmt.Errorf("no %q in the log:\n%s", message, p.Log)
}

// after returns how long after the start of the process a line was written.
func (p *timedProcess) after(line process.Entry) (time.Duration, error) {
	at, err := time.Parse(time.RFC3339Nano, line["time"])
	if err != nil {
		return 0, fmt.Errorf("read when %q was logged: %w", line["msg"], err)
	}
	return at.Sub(p.began), nil
}

// cpu returns the processor time of the process so far: that of all its threads, also of
// those that ended, to the nanosecond, and that of its child processes in ticks of 10 ms.
func (p *timedProcess) cpu() (time.Duration, error) {
	const (
		ofProcess = 2 // CPUCLOCK_SCHED of all threads, include/linux/posix-timers.h
		bits      = 3
	)
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^p.PID()<<bits|ofProcess), &t); err != nil {
		return 0, fmt.Errorf("read the CPU clock of a process: %w", err)
	}
	proc, err := procfs.NewProc(p.PID())
	if err != nil {
		return 0, fmt.Errorf("look up what a process costs: %w", err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return 0, fmt.Errorf("look up what a process costs: %w", err)
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 everywhere
	return time.Duration(t.Nano()) + time.Duration(stat.CUTime+stat.CSTime)*tick, nil
}

// end stops the process regularly.
func (p *timedProcess) end() error {
	if err := p.Stop(); err != nil {
		return fmt.Errorf("end a program: %w", err)
	}
	return nil
}
