package kernel

import (
	"errors"
	"fmt"
	"maps"
	"slices"

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

// Refusals returns the refusals of each frontend of a family that retries, since it has been one. The
// list is empty if there are none or the table does not exist.
func (k *Kernel) Refusals(f model.Family) ([]nft.RefusalCount, error) {
	all := map[model.Match]nft.RefusalCount{}
	for _, kind := range [...]nft.SetKind{nft.SetRefusals, nft.SetRetried} {
		id := nft.SetID{Family: f, Kind: kind}
		err := k.dumpSet(id, func(m netlink.Message) error {
			return wire.DecodeRefusals(id, m.Data, func(m model.Match, n uint64) {
				c := all[m]
				if c.Match = m; kind == nft.SetRefusals {
					c.Refusals = n
				} else {
					c.Retried = min(n, c.Refusals) // it was read later
				}
				all[m] = c
			})
		})
		if err != nil {
			return nil, unlessMissing(err, "read refusals of "+nft.FamilyName(f))
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b nft.RefusalCount) int { return a.Match.Compare(b.Match) }), nil
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
