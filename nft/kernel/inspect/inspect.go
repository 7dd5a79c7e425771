package inspect

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
	"kube-vmap/nft/simulate"
)

// Rules reads the nf_tables of one network namespace. It is not safe for concurrent use.
type Rules struct {
	conn       *netlink.Conn
	generation uint32
	constants  *Constants // nil keeps none
	cache
}

// cache is what was read at a generation.
type cache struct {
	baseChains     []simulate.BaseChain
	haveBaseChains bool
	rules          map[simulate.Chain][]simulate.Rule
	sets           map[setName]*set
}

// Open opens a socket to read from. The network namespace is given by its file descriptor;
// zero means that of the calling thread.
func Open(netNS int) (*Rules, error) {
	conn, err := socket.Open(netNS)
	if err != nil {
		return nil, err
	}
	return &Rules{conn: conn, cache: newCache()}, nil
}

func newCache() cache {
	return cache{rules: map[simulate.Chain][]simulate.Rule{}, sets: map[setName]*set{}}
}

// KeepConstants makes tables of [Rules.Table] use and fill a store.
func (r *Rules) KeepConstants(c *Constants) { r.constants = c }

// Close closes the socket.
func (r *Rules) Close() error { return r.conn.Close() }

// maxTries is how often a snapshot is tried because nf_tables changed meanwhile.
const maxTries = 5

// Snapshot calls fn, which reads from r, again until nf_tables did not change meanwhile. So
// all that fn has read existed at one moment, except for what packets change.
func (r *Rules) Snapshot(fn func() error) error {
	var err error
	for range maxTries {
		before, genErr := socket.Generation(r.conn)
		if genErr != nil {
			return permission(genErr)
		}
		if before != r.generation {
			r.generation, r.cache = before, newCache()
		}
		err = fn()
		after, genErr := socket.Generation(r.conn)
		if genErr != nil || after == before {
			return errors.Join(err, permission(genErr))
		}
	}
	return errors.Join(err, errors.New("read nf_tables: other programs change it too fast"))
}

// permission adds to an error that is [fs.ErrPermission] how to get permission.
func permission(err error) error { return socket.ExplainPermission(err, "read nftables") }

// families are the names of the families of nft by number.
var families = map[uint8]string{
	unix.NFPROTO_IPV4: "ip", unix.NFPROTO_IPV6: "ip6", unix.NFPROTO_INET: "inet", unix.NFPROTO_NETDEV: "netdev",
}

func familyNumber(name string) uint8 {
	for number, n := range families {
		if n == name {
			return number
		}
	}
	return unix.NFPROTO_UNSPEC
}

// appliesTo reports whether chains of a table's family see packets of an IP family.
func appliesTo(table string, f model.Family) bool {
	return table == "inet" || table == "netdev" || table == [...]string{model.IPv4: "ip", model.IPv6: "ip6"}[f]
}

// A message is the body of an answer, after its headers.
type message struct {
	family     uint8
	attributes []byte
}

// get sends a request and calls fn for each answer. Errors of the decoder are returned, too.
func (r *Rules) get(
	kind uint16, flags netlink.HeaderFlags, family uint8, request func(*attr.Encoder), fn func(*attr.Decoder, message),
) error {
	err := socket.Ask(r.conn, socket.Nftables(kind, flags, family, request), func(m netlink.Message) error {
		return decode(m.Data, fn)
	})
	if err != nil {
		return permission(fmt.Errorf("query nf_tables: %w", err))
	}
	return nil
}

// decode calls fn with a message, given what follows its netlink header.
func decode(data []byte, fn func(*attr.Decoder, message)) error {
	var d attr.Decoder
	if attributes := d.Body(data); d.Err() == nil {
		fn(&d, message{data[0], attributes})
	}
	return d.Err()
}
