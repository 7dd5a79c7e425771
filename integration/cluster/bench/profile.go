package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
)

// pprof is the URL of kube-vmap's profiles, on its node.
const pprof = "http://127.0.0.1:10249/debug/pprof/"

// profile starts kube-vmap once more without its tables and writes profiles: of the CPU in
// the first seconds, of allocations, and of the heap afterwards. No figures are taken,
// because profiles cost time.
func (b *bench) profile(ctx context.Context) error {
	if err := os.MkdirAll(b.profiles, 0o755); err != nil {
		return fmt.Errorf("make a folder for profiles: %w", err)
	}
	if err := b.cleanup(ctx); err != nil {
		return err
	}
	p, err := b.kubeVMap("", "--profiling").start(ctx)
	if err != nil {
		return err
	}
	defer p.Kill()
	for _, f := range []struct{ name, query string }{
		{"cpu", "profile?seconds=4"}, // shorter than what Get waits
		{"allocs", "allocs"},
		{"heap", "heap?gc=1"},
	} {
		if err := p.Await(ctx, "profiles", func() error { return b.save(p, f.name, f.query) }); err != nil {
			return err
		}
	}
	return p.end()
}

// save writes a profile to a file.
func (b *bench) save(p *timedProcess, name, query string) error {
	status, body, err := p.Get(pprof + query)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("profile %s: status %d: %s", name, status, body)
	}
	file := filepath.Join(b.profiles, name+".pprof")
	if err := os.WriteFile(file, []byte(body), 0o644); err != nil {
		return fmt.Errorf("write a profile: %w", err)
	}
	progress("wrote %s", file)
	return nil
}
