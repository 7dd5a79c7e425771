package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"

	"kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/cmd/kube-vmap/takeover"
	"kube-vmap/nft/kernel"
)

// cleanup deletes our tables, whatever their content, and resumes kube-proxy's rules if they
// are suspended. It logs which there were.
func cleanup(ctx context.Context, log *slog.Logger) error {
	return node.WithKernel(func(k *kernel.Kernel) error {
		done, err := takeover.Cleanup(ctx, k)
		switch {
		case errors.Is(err, fs.ErrPermission):
			tables, _ := k.Read()
			return cmp.Or(tables.Writable(), err) // another process may own the tables
		case err != nil:
			return err
		}
		if len(done.Tables) > 0 {
			log.Info("tables removed", "tables", done.Tables)
		} else {
			log.Info("nothing to remove: this network namespace has no table of kube-vmap")
		}
		if len(done.Resumed) > 0 {
			log.Info("resumed kube-proxy's rules", "rules", done.Resumed)
		}
		return nil
	})
}
