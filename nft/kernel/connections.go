package kernel

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/wire"
)

// Connections returns the counted connections of a family, sorted. There are none if
// connections are not counted or there is no table. While the set grows or shrinks, some
// pairs may be missing.
func (k *Kernel) Connections(f model.Family) (list []nft.ConnectionCount, err error) {
	err = k.dumpSet(nft.SetID{Family: f, Kind: nft.SetConnections}, func(m netlink.Message) (err error) {
		list, err = wire.DecodeConnections(f, list, m.Data)
		return err
	})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EAFNOSUPPORT):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read counted connections of %s: %w", nft.FamilyName(f), err)
	}
	return nft.SortConnections(list), nil
}
