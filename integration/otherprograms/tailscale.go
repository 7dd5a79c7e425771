package main

import (
	"errors"
	"fmt"
	"os"

	"tailscale.com/util/linuxfw"
)

// tunnel is the name of Tailscale's interface. Rules that match it may be set before the
// interface exists.
const tunnel = "tailscale0"

// tailscale sets the rules as tailscaled does on a subnet router, with all its options.
func tailscale(args []string) error {
	if err := needs(args, 1); err != nil {
		return err
	}
	log := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	r, err := linuxfw.New(log, args[0])
	if err != nil {
		return err
	}
	// As tailscaled does when it starts, in case that it was killed.
	linuxfw.IPTablesCleanUp(log)
	linuxfw.NfTablesCleanUp(log)
	if err := r.AddChains(); err != nil {
		return err
	}
	return errors.Join(r.AddHooks(), r.AddBase(tunnel), r.AddSNATRule(), r.AddStatefulRule(tunnel), r.AddConnmarkSaveRule())
}
