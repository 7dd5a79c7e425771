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

// Connections returns the counted connections of a family, sorted. The list is empty if
// connections are not counted or the table does not exist. While the set grows or
// shrinks, some pairs may be missing.
func (k *Kernel) Connections(f model.Family) (list []nft.ConnectionCount, err error) {
	err = k.dumpSet(nft.SetID{Family: f, Kind: nft.SetConnections}, func(m netlink.Message) (err error) {
		list, err = wire.DecodeConnections(f, list, m.Data)
		return err
	})
	if err != nil {
		return nil, unlessMissing(err, "read counted connections of "+nft.FamilyName(f))
	}
	return nft.SortConnections(list), nil
}

// Clients calls each with the clients that an affinity map, [nft.SetHeld] or [nft.SetWaiting] has.
// A missing set has none. While the set changes, some may be missing or repeated.
func (k *Kernel) Clients(id nft.SetID, each func(nft.Client)) error {
	err := k.dumpSet(id, func(m netlink.Message) error { return wire.DecodeClients(id, m.Data, each) })
	return unlessMissing(err, "read clients of "+nft.FamilyName(id.Family))
}

// unlessMissing adds the action to an error, and ignores a missing table or set.
func unlessMissing(err error, action string) error {
	if err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EAFNOSUPPORT) {
		return nil
	}
	return fmt.Errorf("%s: %w", action, err)
}

// Uncounted returns the original destinations of a family that are not counted now. The
// list is empty if connections are not counted or the table does not exist.
func (k *Kernel) Uncounted(f model.Family) ([]model.Match, error) {
	elements, err := k.Elements(nft.SetID{Family: f, Kind: nft.SetUncounted})
	if err != nil {
		return nil, unlessMissing(err, "read uncounted frontends of "+nft.FamilyName(f))
	}
	return nft.Matches(f, elements), nil
}
