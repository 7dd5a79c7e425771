package kernel

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// Connections are the connections of a family that were counted, sorted; none if
// they are not counted or there is no table. While the set grows or shrinks, some
// pairs may be missing.
func (k *Kernel) Connections(f model.Family) (list []nft.ConnectionCount, err error) {
	id := nft.SetID{Family: f, Kind: nft.SetConnections}
	err = k.get(unix.NFT_MSG_GETSETELEM, netlink.Dump, nft.FamilyNumber(f), []attribute{
		{unix.NFTA_SET_ELEM_LIST_TABLE, nft.TableName},
		{unix.NFTA_SET_ELEM_LIST_SET, id.Name()},
	}, func(m netlink.Message) (err error) {
		list, err = nft.DecodeConnections(f, list, m.Data)
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
