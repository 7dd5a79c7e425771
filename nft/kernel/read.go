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
	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
	"kube-vmap/nft/wire"
)

// maxReads is how often a read is repeated because nf_tables changed under it.
const maxReads = 5

// Read returns what the kernel holds in our tables, at one moment.
//
// The kernel replies in pieces and its generation counts the commits of all programs, to
// any table. So the generation is compared before and after; while other programs commit
// all the time, two reads in a row with the same replies are accepted, too. An error may
// also be due to such a change: an object was listed, and no longer exists when it is
// read.
func (k *Kernel) Read() (nft.Tables, error) {
	var last uint64
	for range maxReads {
		tables, consistent, err := k.ReadOnce()
		if consistent {
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

// ReadOnce reads our tables and reports whether the result is consistent: nf_tables did
// not change meanwhile. If it did, the result, also an error, may be a mixture of before
// and after.
func (k *Kernel) ReadOnce() (tables nft.Tables, consistent bool, err error) {
	before, err := k.Generation()
	if err != nil {
		return tables, true, err
	}
	k.readHash.Reset()
	tables, readErr := k.eachTable(k.readTable) // not consistent with each other
	after, err := k.Generation()
	if err != nil {
		return tables, true, err
	}
	return tables.MarkForeign(k.port), before == after, readErr
}

// Generation returns a number that grows with every commit to nf_tables in this network
// namespace, by any process.
func (k *Kernel) Generation() (uint32, error) {
	id, err := socket.Generation(k.read)
	return id, permission(err)
}

// ForeignChanges returns a number that changes whenever nf_tables of this network namespace
// is changed by any program but this Kernel and those that share its socket. (A transaction
// of ours that had no effect, which the kernel does not count, changes it too.)
func (k *Kernel) ForeignChanges() (uint32, error) {
	k.mu.Lock() // excludes transactions that are committed but not counted yet
	defer k.mu.Unlock()
	id, err := k.Generation()
	return id - k.commits, err
}

// CountCommit notes a transaction that this process committed on a socket of its own, and
// which is therefore not a foreign change.
func (k *Kernel) CountCommit() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.commits++
}

// ReadHeaders returns our tables without their content: whether they exist and are
// dormant, and who owns them.
func (k *Kernel) ReadHeaders() (nft.Tables, error) {
	t, err := k.eachTable(func(*nft.Tables, model.Family) error { return nil })
	return t.MarkForeign(k.port), err
}

// eachTable reads the header of each table that exists, and then its content.
func (k *Kernel) eachTable(content func(*nft.Tables, model.Family) error) (t nft.Tables, err error) {
	for _, f := range model.Families {
		err := k.decode(&t, f, unix.NFT_MSG_GETTABLE, 0)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EAFNOSUPPORT) {
			continue
		}
		if err == nil {
			err = content(&t, f)
		}
		if err != nil {
			return t, fmt.Errorf("read table %s %s: %w", nft.FamilyName(f), nft.TableName(), err)
		}
	}
	return t, nil
}

func (k *Kernel) readTable(t *nft.Tables, f model.Family) (err error) {
	for _, kind := range []uint16{
		unix.NFT_MSG_GETCHAIN, unix.NFT_MSG_GETRULE, unix.NFT_MSG_GETSET, unix.NFT_MSG_GETOBJ, unix.NFT_MSG_GETFLOWTABLE,
	} {
		if err := k.decode(t, f, kind, netlink.Dump); err != nil {
			return err
		}
	}
	// In a fixed order: the same content must have the same hash.
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

// Elements returns the elements of a set, sorted by key. If the set changes meanwhile, some
// may be missing.
func (k *Kernel) Elements(id nft.SetID) (list []nft.Element, err error) {
	// A growing list of a hundred thousand would leave several times its size as garbage.
	const part = 4096
	var parts [][]nft.Element
	err = k.dumpSet(id, func(m netlink.Message) (err error) {
		k.hashAnswer(m)
		if len(list) >= part {
			parts, list = append(parts, list), make([]nft.Element, 0, cap(list))
		}
		list, err = wire.DecodeElements(id, list, m.Data)
		return err
	})
	if len(parts) > 0 {
		list = slices.Concat(append(parts, list)...)
	}
	return wire.SortElements(id, list), err
}

// hashAnswer adds a reply to the hash, without the header, which has the generation.
func (k *Kernel) hashAnswer(m netlink.Message) {
	_, _ = k.readHash.Write(m.Data[min(attr.BodyHeaderLen, len(m.Data)):])
}

// Counters returns how many connections of a family each named counter has counted since the
// table was created. Without a table they are zero.
func (k *Kernel) Counters(f model.Family) (totals [nft.Counters]uint64, err error) {
	err = k.get(unix.NFT_MSG_GETOBJ, netlink.Dump, f, func(e *attr.Encoder) {
		e.String(unix.NFTA_OBJ_TABLE, nft.TableName())
	}, func(m netlink.Message) error {
		c, packets, ours, err := wire.DecodeCounter(m.Data)
		if ours {
			totals[c] = packets
		}
		return err
	})
	return totals, err
}

// Unanswered returns how many first packets of connections to Services were sent again, in both
// families, since the tables were created. Without tables it is zero.
func (k *Kernel) Unanswered() (packets uint64, err error) {
	ofTable := func(e *attr.Encoder) { e.String(unix.NFTA_OBJ_TABLE, nft.TableName()) }
	all := socket.Nftables(unix.NFT_MSG_GETOBJ, netlink.Dump, unix.NFPROTO_UNSPEC, ofTable) // both families in one dump
	err = permission(socket.Ask(k.read, all, func(m netlink.Message) error {
		c, n, ours, err := wire.DecodeCounter(m.Data)
		if ours && c == nft.CounterUnanswered {
			packets += n
		}
		return err
	}))
	if err != nil {
		return 0, fmt.Errorf("read unanswered connections: %w", err)
	}
	return packets, nil
}

// decode sends a request about our table, and adds every reply to the tables.
func (k *Kernel) decode(t *nft.Tables, f model.Family, kind uint16, flags netlink.HeaderFlags) error {
	// The table has the same number as an attribute of chains, rules, sets and objects.
	name := func(e *attr.Encoder) { e.String(unix.NFTA_TABLE_NAME, nft.TableName()) }
	return k.get(kind, flags, f, name, func(m netlink.Message) error {
		if kind != unix.NFT_MSG_GETOBJ { // a counter differs each time
			k.hashAnswer(m)
		}
		return wire.Decode(t, f, uint16(m.Header.Type)&0xff, m.Data)
	})
}

// dumpSet calls fn for each message with elements of a set.
func (k *Kernel) dumpSet(id nft.SetID, fn func(netlink.Message) error) error {
	return k.get(unix.NFT_MSG_GETSETELEM, netlink.Dump, id.Family, func(e *attr.Encoder) {
		e.String(unix.NFTA_SET_ELEM_LIST_TABLE, nft.TableName())
		e.String(unix.NFTA_SET_ELEM_LIST_SET, id.Name())
	}, fn)
}

// get sends a request and calls fn for each reply.
func (k *Kernel) get(
	kind uint16, flags netlink.HeaderFlags, f model.Family, attributes func(*attr.Encoder), fn func(netlink.Message) error,
) error {
	return permission(socket.Ask(k.read, socket.Nftables(kind, flags, nft.FamilyNumber(f), attributes), fn))
}

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
