package main

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"

	"kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
)

// cleanup deletes our tables, whatever their content, and logs which existed.
func cleanup(log *slog.Logger) error {
	return node.WithKernel(func(k *kernel.Kernel) (err error) {
		var removed []string
		for _, f := range model.Families {
			_, e := k.Apply(nft.Batch{nft.DeleteTable{Family: f}})
			switch {
			case e == nil:
				removed = append(removed, nft.FamilyName(f)+" "+nft.TableName)
			case errors.Is(e, fs.ErrPermission): // the next family would fail, too
				tables, _ := k.Read()
				return cmp.Or(tables.Writable(), e) // another process may own the tables
			case !errors.Is(e, fs.ErrNotExist):
				err = errors.Join(err, e)
			}
		}
		switch {
		case len(removed) > 0:
			log.Info("tables removed", "tables", removed)
		case err == nil:
			log.Info("nothing to remove: this network namespace has no table of kube-vmap")
		}
		return err
	})
}
