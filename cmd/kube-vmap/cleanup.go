package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/cmd/kube-vmap/takeover"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/kubeproxy"
)

// cleanup deletes our tables, whatever their content, and resumes kube-proxy's rules if they
// are suspended. It logs which there were. Without force it refuses if nothing would serve then.
func cleanup(ctx context.Context, log *slog.Logger, force bool) error {
	return node.WithKernel(func(k *kernel.Kernel) error {
		state, _ := kubeproxy.ReadTakeoverState(0) // only logged
		done, err := takeover.Cleanup(ctx, k, force)
		var refused *takeover.RefusedError
		switch {
		case errors.As(err, &refused):
			return &exit.Error{Code: exit.Refused, Err: err}
		case errors.Is(err, fs.ErrPermission):
			tables, _ := k.Read()
			return cmp.Or(tables.Writable(), err) // another process may own the tables
		case err != nil:
			return err
		}
		if len(done.Tables) > 0 {
			log.Info("tables removed", "tables", done.Tables)
		} else if state == "" {
			log.Info("nothing to remove: this network namespace has no table of kube-vmap")
		}
		if state != "" {
			log.Info("state of the take-over removed", "removed", state)
		}
		if len(done.Resumed) > 0 {
			log.Info("resumed kube-proxy's rules", "rules", done.Resumed)
		}
		return nil
	})
}
