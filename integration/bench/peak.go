package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
)

// peaks measures the memory of a process for a first load: model, rule set and batch, but
// no API objects.
func (b *bench) peaks() error {
	s := b.Section("Memory of the process, first load", "", "peak RSS", "live heap after it")
	s.Note("with the model, without API objects and their caches")
	for _, z := range []size{standard, {45_000, 1}, {5_000, 50}, {1, 100_000}} {
		out, err := exec.Command("/proc/self/exe", "-peak", fmt.Sprintf("%dx%d", z.services, z.endpoints)).Output()
		if err != nil {
			return fmt.Errorf("measure the peak of %s in a process: %w", z, err)
		}
		var rss, heap int
		if _, err := fmt.Sscan(string(out), &rss, &heap); err != nil {
			return fmt.Errorf("read the peak of %s: %w", z, err)
		}
		s.Add(z.String(), report.Bytes(rss), report.Bytes(heap))
	}
	return nil
}

// printPeak does a first load and prints the bytes of the process's peak
// resident memory and of its live heap.
func printPeak(text string) error {
	var z size
	if _, err := fmt.Sscanf(text, "%dx%d", &z.services, &z.endpoints); err != nil {
		return fmt.Errorf("read -peak %q: %w", text, err)
	}
	return inSandbox(func(s *sandbox) error {
		p, err := newProxy(newCluster(z, model.IPv4), s.kernel)
		if err != nil {
			return err
		}
		peak, err := kilobytes("/proc/self/status", "VmHWM")
		if err != nil {
			return err
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		_, err = fmt.Fprintln(os.Stdout, peak<<10, m.HeapAlloc)
		runtime.KeepAlive(p)
		return err
	})
}
