package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/simulate"
)

// Rules is the nf_tables of one network namespace. It is not safe for use by several
// goroutines.
type Rules struct {
	conn       *netlink.Conn
	generation uint32
	cache
}

// cache is what was read and holds as long as the generation is the same.
type cache struct {
	baseChains     []simulate.BaseChain
	rules          map[simulate.Chain][]simulate.Rule
	sets           map[setName]*set
	haveBaseChains bool // bases are
}

// Config says where to find nf_tables.
type Config struct {
	// NetNS is a file descriptor of a network namespace; zero means that of the
	// calling thread.
	NetNS int
}

const (
	readBuffer = 1 << 20
	dumpPiece  = 64 << 10
)

// Open makes a socket to read from.
func Open(c Config) (*Rules, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: c.NetNS, MessageBufferSize: dumpPiece})
	if err != nil {
		return nil, fmt.Errorf("open a netfilter socket: %w", err)
	}
	if err := conn.SetReadBuffer(readBuffer); err != nil {
		return nil, errors.Join(fmt.Errorf("set the size of a netfilter socket's buffer: %w", err), conn.Close())
	}
	return &Rules{conn: conn, cache: newCache()}, nil
}

func newCache() cache {
	return cache{rules: map[simulate.Chain][]simulate.Rule{}, sets: map[setName]*set{}}
}

// Close gives the socket back.
func (r *Rules) Close() error { return r.conn.Close() }

// maxTries is how often a look starts again because nf_tables changed under it.
const maxTries = 5

// Snapshot calls fn, which asks r for what it needs, until nobody changed nf_tables
// meanwhile: what it saw was all there at one moment, but for what packets change.
func (r *Rules) Snapshot(fn func() error) error {
	var err error
	for range maxTries {
		before, genErr := r.currentGeneration()
		if genErr != nil {
			return genErr
		}
		if before != r.generation {
			r.generation, r.cache = before, newCache()
		}
		err = fn()
		after, genErr := r.currentGeneration()
		if genErr != nil || after == before {
			return errors.Join(err, genErr)
		}
	}
	return errors.Join(err, errors.New("read nf_tables: other programs change it too fast"))
}

func (r *Rules) currentGeneration() (id uint32, err error) {
	err = r.get(unix.NFT_MSG_GETGEN, 0, unix.AF_UNSPEC, nil, func(m netlink.Message) error {
		return attributes(m, func(ad *netlink.AttributeDecoder) {
			if ad.Type() == unix.NFTA_GEN_ID {
				id = ad.Uint32()
			}
		})
	})
	return id, err
}

// families are nft's names of families, by number.
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

// nfHeaderLen is the length of a netfilter message's own header (struct nfgenmsg).
const nfHeaderLen = 4

// get sends a request and calls fn for each answer.
func (r *Rules) get(kind uint16, flags netlink.HeaderFlags, family uint8, attrs []byte, fn func(netlink.Message) error) error {
	request := netlink.Message{
		Header: netlink.Header{
			Type:  unix.NFNL_SUBSYS_NFTABLES<<8 | netlink.HeaderType(kind),
			Flags: netlink.Request | flags,
		},
		Data: append([]byte{family, unix.NFNETLINK_V0, 0, 0}, attrs...),
	}
	if _, err := r.conn.Send(request); err != nil {
		return explainError(err)
	}
	var first error
	for m, err := range r.conn.ReceiveIter() {
		if err != nil {
			return explainError(err)
		}
		if err := fn(m); first == nil {
			first = err // the rest of the answers must be read all the same
		}
	}
	return first
}

func explainError(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("no permission to read nftables; run as root or with CAP_NET_ADMIN: %w", err)
	}
	return fmt.Errorf("ask nf_tables: %w", err)
}

// attributes calls fn for each attribute of a message.
func attributes(m netlink.Message, fn func(*netlink.AttributeDecoder)) error {
	if len(m.Data) < nfHeaderLen {
		return errors.New("message is truncated")
	}
	return nested(m.Data[nfHeaderLen:], fn)
}

func nested(b []byte, fn func(*netlink.AttributeDecoder)) error {
	ad, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return fmt.Errorf("decode attributes: %w", err)
	}
	ad.ByteOrder = binary.BigEndian
	for ad.Next() {
		fn(ad)
	}
	if err := ad.Err(); err != nil {
		return fmt.Errorf("decode attributes: %w", err)
	}
	return nil
}

// encode makes attributes of a request.
func encode(fn func(*netlink.AttributeEncoder)) ([]byte, error) {
	enc := netlink.NewAttributeEncoder()
	enc.ByteOrder = binary.BigEndian
	fn(enc)
	b, err := enc.Encode()
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return b, nil
}
