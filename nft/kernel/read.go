package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// maxReads is how often a read starts again because somebody changed nf_tables
// under it.
const maxReads = 5

// Read returns what the kernel holds under our name, at one moment. The kernel
// answers in pieces and does not say whose tables other programs change in between,
// so the generation is compared before and after; where others change theirs all the
// time, two readings in a row that came to the same. Something that was listed may
// also be gone when it is asked for.
func (k *Kernel) Read() (nft.Tables, error) {
	var last uint64
	for range maxReads {
		tables, whole, err := k.ReadOnce()
		if whole {
			return tables, err
		}
		now := k.readHash.Sum64()
		if err == nil && now == last {
			return tables, nil
		}
		last = now
	}
	return nft.Tables{}, errors.New("read nf_tables: other programs change it too fast")
}

// ReadOnce reads what the kernel holds under our name, and says whether nobody
// changed nf_tables meanwhile. If somebody did, what it returns, an error too, may
// be a mixture of before and after.
func (k *Kernel) ReadOnce() (tables nft.Tables, whole bool, err error) {
	before, err := k.Generation()
	if err != nil {
		return tables, true, err
	}
	k.readHash.Reset()
	tables, readErr := k.readOnce()
	after, err := k.Generation()
	if err != nil {
		return tables, true, err
	}
	return tables.MarkForeign(k.port), before == after, readErr
}

// Generation is a number that grows with every change of nf_tables in this
// network namespace, by anybody.
func (k *Kernel) Generation() (uint32, error) {
	var id uint32
	err := k.get(unix.NFT_MSG_GETGEN, 0, unix.AF_UNSPEC, nil, func(m netlink.Message) error {
		ad, err := netlink.NewAttributeDecoder(m.Data[min(4, len(m.Data)):])
		if err != nil {
			return err
		}
		ad.ByteOrder = binary.BigEndian
		for ad.Next() {
			if ad.Type() == unix.NFTA_GEN_ID {
				id = ad.Uint32()
			}
		}
		return ad.Err()
	})
	return id, err
}

// ForeignChanges is a number that changes whenever nf_tables of this network namespace is
// changed by anybody but this Kernel and those beside it. (A transaction of ours that
// had nothing to do, which the kernel does not count, changes it too.)
func (k *Kernel) ForeignChanges() (uint32, error) {
	k.mu.Lock() // so that nothing is between being applied and being counted
	defer k.mu.Unlock()
	id, err := k.Generation()
	return id - k.commits, err
}

// readOnce reads both tables; each dump by itself is not consistent with the
// next.
func (k *Kernel) readOnce() (nft.Tables, error) {
	var t nft.Tables
	for _, f := range model.Families {
		err := k.decode(&t, f, unix.NFT_MSG_GETTABLE, 0, attribute{unix.NFTA_TABLE_NAME, nft.TableName})
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EAFNOSUPPORT) {
			continue
		}
		if err == nil {
			err = k.readTable(&t, f)
		}
		if err != nil {
			return t, fmt.Errorf("read table %s %s: %w", nft.FamilyName(f), nft.TableName, err)
		}
	}
	return t, nil
}

func (k *Kernel) readTable(t *nft.Tables, f model.Family) (err error) {
	for _, get := range []struct {
		kind uint16
		of   attribute
	}{
		{unix.NFT_MSG_GETCHAIN, attribute{unix.NFTA_CHAIN_TABLE, nft.TableName}},
		{unix.NFT_MSG_GETRULE, attribute{unix.NFTA_RULE_TABLE, nft.TableName}},
		{unix.NFT_MSG_GETSET, attribute{unix.NFTA_SET_TABLE, nft.TableName}},
		{unix.NFT_MSG_GETOBJ, attribute{unix.NFTA_OBJ_TABLE, nft.TableName}},
	} {
		if err := k.decode(t, f, get.kind, netlink.Dump, get.of); err != nil {
			return err
		}
	}
	// In the same order each time, by which one reading is known from another.
	for _, name := range slices.Sorted(maps.Keys(t[f].Sets)) {
		set := t[f].Sets[name]
		id, known := nft.SetNamed(f, name)
		if !known || !set.Shape.Fits(id) || id.IsDynamic() {
			continue
		}
		if set.Elements, err = k.Elements(id); err != nil {
			return err
		}
		t[f].Sets[name] = set
	}
	return nil
}

// Elements lists what a set holds, sorted by key. If the set changes meanwhile,
// some may be missing.
func (k *Kernel) Elements(id nft.SetID) (list []nft.Element, err error) {
	err = k.EachPart(id, func(part []nft.Element) { list = append(list, part...) })
	return nft.SortElements(id, list), err
}

// EachPart calls fn with what a set holds, some elements at a time, in no order
// and maybe one twice. The list is good until fn returns. If the set changes
// meanwhile, some may be missing.
func (k *Kernel) EachPart(id nft.SetID, fn func([]nft.Element)) error {
	var part []nft.Element
	return k.get(unix.NFT_MSG_GETSETELEM, netlink.Dump, nft.FamilyNumber(id.Family), []attribute{
		{unix.NFTA_SET_ELEM_LIST_TABLE, nft.TableName},
		{unix.NFTA_SET_ELEM_LIST_SET, id.Name()},
	}, func(m netlink.Message) (err error) {
		k.hashAnswer(m)
		part, err = nft.DecodeElements(id, part[:0], m.Data)
		fn(part)
		return err
	})
}

// hashAnswer notes what the kernel said, but for the generation in its header.
func (k *Kernel) hashAnswer(m netlink.Message) {
	_, _ = k.readHash.Write(m.Data[min(nfHeaderLen, len(m.Data)):])
}

// nfHeaderLen is the length of a netfilter message's own header (struct nfgenmsg).
const nfHeaderLen = 4

// AffinityFull is how many connections of a family have found the map full that
// remembers clients, since the table was made; zero if there is no table.
func (k *Kernel) AffinityFull(f model.Family) (total uint64, err error) {
	err = k.get(unix.NFT_MSG_GETOBJ, netlink.Dump, nft.FamilyNumber(f), []attribute{
		{unix.NFTA_OBJ_TABLE, nft.TableName},
	}, func(m netlink.Message) error {
		packets, ours, err := nft.DecodeCounter(m.Data)
		if ours {
			total = packets
		}
		return err
	})
	return total, err
}

// attribute is a string that a request asks by.
type attribute struct {
	kind  uint16
	value string
}

// decode asks and adds every answer to the tables.
func (k *Kernel) decode(t *nft.Tables, f model.Family, kind uint16, flags netlink.HeaderFlags, by attribute) error {
	return k.get(kind, flags, nft.FamilyNumber(f), []attribute{by}, func(m netlink.Message) error {
		if kind != unix.NFT_MSG_GETOBJ { // counters count on
			k.hashAnswer(m)
		}
		return t.Decode(f, uint16(m.Header.Type)&0xff, m.Data)
	})
}

// get sends a request and calls fn for each answer.
func (k *Kernel) get(kind uint16, flags netlink.HeaderFlags, family uint8, by []attribute, fn func(netlink.Message) error) error {
	enc := netlink.NewAttributeEncoder()
	for _, a := range by {
		enc.String(a.kind, a.value)
	}
	attrs, err := enc.Encode()
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	request := netlink.Message{
		Header: netlink.Header{
			Type:  unix.NFNL_SUBSYS_NFTABLES<<8 | netlink.HeaderType(kind),
			Flags: netlink.Request | flags,
		},
		Data: append([]byte{family, unix.NFNETLINK_V0, 0, 0}, attrs...),
	}
	if _, err := k.read.Send(request); err != nil {
		return permission(fmt.Errorf("ask nf_tables: %w", err))
	}
	var first error
	for m, err := range k.read.ReceiveIter() {
		if err != nil {
			return permission(fmt.Errorf("ask nf_tables: %w", err))
		}
		if err := fn(m); first == nil {
			first = err // the rest of the answers must be read all the same
		}
	}
	return first
}
