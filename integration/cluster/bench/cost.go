package main

import (
	"context"
	"time"

	"kube-vmap/integration/bench/report"
)

// cost is the cost of a program's starts.
type cost struct {
	took     report.Times // from exec until it was ready
	complete report.Times // from exec until the API's objects were there; none if not logged
	kernel   report.Times // the kernel's part of the batch
	cpu      report.Times
	peak     report.Sample[report.Bytes] // of resident memory, at most ever
	resident report.Sample[report.Bytes] // and a while after
}

// rest is the time between a program's start and the measurement of its memory and CPU:
// what it does meanwhile is part of the start.
const rest = time.Second

// once starts the program, measures the cost, and ends it.
func (p *program) once(ctx context.Context) error {
	running, err := p.start(ctx)
	if err != nil {
		return err
	}
	defer running.Kill() // after an error, and who does not end in order
	if err := p.measure(ctx, running); err != nil {
		return err
	}
	return running.end()
}

// measure waits until the program is ready and records the cost.
func (p *program) measure(ctx context.Context, running *timedProcess) error {
	took, err := p.ready(ctx, running)
	if err != nil {
		return err
	}
	time.Sleep(rest)
	cpu, err := running.cpu()
	if err != nil {
		return err
	}
	memory, err := running.Cost()
	if err != nil {
		return err
	}
	p.took.Add(took)
	p.cpu.Add(cpu)
	p.peak.Add(report.Bytes(memory.PeakRSS))
	p.resident.Add(report.Bytes(memory.RSS))
	if p.ours {
		return p.listen(running)
	}
	return nil
}

// listen records the figures in kube-vmap's log and metrics.
func (c *cost) listen(running *timedProcess) error {
	complete, err := running.line("API objects loaded")
	if err != nil {
		return err
	}
	families, err := running.Metrics()
	if err != nil {
		return err
	}
	c.complete.Add(complete)
	for _, m := range families["kubevmap_kernel_duration_seconds"].GetMetric() {
		c.kernel.Add(time.Duration(m.GetHistogram().GetSampleSum() * float64(time.Second)))
	}
	return nil
}
