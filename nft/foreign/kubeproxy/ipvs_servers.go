package kubeproxy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
)

// The generic netlink family of IPVS (include/uapi/linux/ip_vs.h). No library that we depend on
// has it.
const (
	familyName    = "IPVS" // IPVS_GENL_NAME
	familyVersion = 1      // IPVS_GENL_VERSION

	cmdDelService = 3 // IPVS_CMD_DEL_SERVICE
	cmdGetService = 4 // IPVS_CMD_GET_SERVICE

	attrService  = 1 // IPVS_CMD_ATTR_SERVICE, within it:
	attrFamily   = 1 // IPVS_SVC_ATTR_AF
	attrProtocol = 2 // IPVS_SVC_ATTR_PROTOCOL
	attrAddress  = 3 // IPVS_SVC_ATTR_ADDR, 16 bytes for every family
	attrPort     = 4 // IPVS_SVC_ATTR_PORT
	attrMark     = 5 // IPVS_SVC_ATTR_FWMARK
)

type server struct {
	key []byte // the attributes that name it, as the kernel wrote them
	at  netip.AddrPort
	// isFirewallMark means that it serves a firewall mark, not an address.
	isFirewallMark bool
}

func openAndRemoveServers(netNS int, except []netip.Prefix) (removed int, err error) {
	conn, err := socket.OpenGeneric(netNS)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return removeServers(conn, except)
}

// removeServers removes the virtual servers, but not the ones of a firewall mark, which kube-proxy
// does not create, and those in excluded ranges. While it ran, kube-proxy considered all others its
// own, too, and removed those it did not know.
func removeServers(conn *netlink.Conn, except []netip.Prefix) (removed int, err error) {
	id, err := ipvsFamily(conn)
	if id == 0 || err != nil {
		return 0, err
	}
	servers, err := listServers(conn, id)
	if err != nil {
		return 0, err
	}
	for _, s := range servers {
		if s.isFirewallMark || slices.ContainsFunc(except, func(p netip.Prefix) bool { return p.Contains(s.at.Addr()) }) {
			continue
		}
		switch e := s.remove(conn, id); {
		case e == nil:
			removed++
		case !errors.Is(e, unix.ESRCH): // another program removed it first
			err = errors.Join(err, fmt.Errorf("remove virtual server %s: %w", s.at, e))
		}
	}
	return removed, err
}

// ipvsFamily returns the number of IPVS among the generic netlink families, zero if the kernel has
// no IPVS. All families are listed, because to ask for one by name makes the kernel load its module.
func ipvsFamily(conn *netlink.Conn) (id uint16, err error) {
	m := genericRequest(unix.GENL_ID_CTRL, unix.CTRL_CMD_GETFAMILY, netlink.Dump, nil)
	err = socket.Ask(conn, m, func(m netlink.Message) error {
		var d attr.Decoder
		attributes := d.Body(m.Data)
		if attr.String(d.Find(attributes, unix.CTRL_ATTR_FAMILY_NAME)) == familyName {
			id = d.NativeUint16(d.Find(attributes, unix.CTRL_ATTR_FAMILY_ID))
		}
		return d.Err()
	})
	if err != nil {
		return 0, fmt.Errorf("list generic netlink families: %w", err)
	}
	return id, nil
}

// genericRequest returns a request to a generic netlink family, with the attributes of a server
// unless it is nil.
func genericRequest(id uint16, command uint8, flags netlink.HeaderFlags, s *server) netlink.Message {
	e := attr.Encoder{Bytes: []byte{command, familyVersion, 0, 0}} // struct genlmsghdr
	if s != nil {
		e.Data(attrService|unix.NLA_F_NESTED, s.key)
	}
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(id), Flags: netlink.Request | flags},
		Data:   e.Bytes,
	}
}

func listServers(conn *netlink.Conn, id uint16) (servers []server, err error) {
	err = socket.Ask(conn, genericRequest(id, cmdGetService, netlink.Dump, nil), func(m netlink.Message) error {
		var d attr.Decoder
		for kind, value := range d.Attributes(d.Body(m.Data)) {
			if kind == attrService {
				servers = append(servers, decodeServer(&d, value))
			}
		}
		return d.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list virtual servers of IPVS: %w", err)
	}
	return servers, nil
}

func decodeServer(d *attr.Decoder, attributes []byte) (s server) {
	var key attr.Encoder
	var address []byte
	var port uint16
	length := 4
	for kind, value := range d.Attributes(attributes) {
		switch kind {
		case attrFamily:
			if d.NativeUint16(value) == unix.AF_INET6 {
				length = 16
			}
		case attrAddress:
			address = value
		case attrPort:
			port = d.Uint16(value)
		case attrMark:
			s.isFirewallMark = true
		}
		if kind <= attrPort {
			key.Data(kind, value)
		}
	}
	a, _ := netip.AddrFromSlice(address[:min(length, len(address))])
	s.key, s.at = key.Bytes, netip.AddrPortFrom(a, port)
	return s
}

func (s server) remove(conn *netlink.Conn, id uint16) error {
	m := genericRequest(id, cmdDelService, netlink.Acknowledge, &s)
	return socket.Ask(conn, m, func(netlink.Message) error { return nil })
}

// maxSetName is the length of the longest name of a set (IPSET_MAXNAMELEN less its zero
// byte).
const maxSetName = 31

// IPSetNames returns the names of the ipsets of kube-proxy's ipvs mode, of both families
// (pkg/proxy/ipvs/ipset.go of Kubernetes 1.36 and 1.37).
func IPSetNames() []string {
	var names []string
	for _, prefix := range []string{"KUBE-", "KUBE-6-"} {
		for _, rest := range []string{
			"LOOP-BACK", "CLUSTER-IP", "EXTERNAL-IP", "EXTERNAL-IP-LOCAL", "LOAD-BALANCER", "LOAD-BALANCER-LOCAL",
			"LOAD-BALANCER-FW", "LOAD-BALANCER-SOURCE-IP", "LOAD-BALANCER-SOURCE-CIDR",
			"NODE-PORT-TCP", "NODE-PORT-LOCAL-TCP", "NODE-PORT-UDP", "NODE-PORT-LOCAL-UDP",
			"NODE-PORT-SCTP-HASH", "NODE-PORT-LOCAL-SCTP-HASH", "HEALTH-CHECK-NODE-PORT", "IPVS-IPS",
		} {
			name := prefix + rest
			names = append(names, name[:min(maxSetName, len(name))])
		}
	}
	return names
}

// Constants of ipset's netlink protocol (include/uapi/linux/netfilter/ipset/ip_set.h).
const (
	setProtocol = 6                    // IPSET_PROTOCOL_MIN, which every kernel supports
	cmdDestroy  = 3                    // IPSET_CMD_DESTROY
	attrProto   = 1                    // IPSET_ATTR_PROTOCOL
	attrSetName = 2                    // IPSET_ATTR_SETNAME
	errSetInUse = unix.Errno(4096 + 4) // IPSET_ERR_BUSY
)

// A rule that was just deleted holds its sets until the kernel has destroyed it in the
// background. Sets in use are retried until then, all together.
const (
	maxDestroyTries = 100
	destroyPause    = 10 * time.Millisecond
)

// RemoveIPSets removes the ipsets and returns the names of those that existed. A set that a
// rule of another program uses stays, and is an error.
func RemoveIPSets(netNS int) (removed []string, err error) {
	conn, err := socket.Open(netNS)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	busy := IPSetNames()
	for try := 0; len(busy) > 0 && try < maxDestroyTries; try++ {
		if try > 0 {
			time.Sleep(destroyPause)
		}
		left := busy
		busy = nil
		for _, name := range left {
			switch e := destroy(conn, name); {
			case e == nil:
				removed = append(removed, name)
			case errors.Is(e, errSetInUse):
				busy = append(busy, name)
			case errors.Is(e, unix.EINVAL): // the kernel has no sets at all
				return removed, err
			case !errors.Is(e, unix.ENOENT):
				err = errors.Join(err, fmt.Errorf("remove ipset %s: %w", name, e))
			}
		}
	}
	if len(busy) > 0 {
		err = errors.Join(err, fmt.Errorf("remove ipsets %s, which rules of other programs use: %w",
			strings.Join(busy, ", "), unix.EBUSY))
	}
	return removed, err
}

// destroy destroys a set. The flag for exclusive use makes it an error if there is no such
// set.
func destroy(conn *netlink.Conn, name string) error {
	const flags = netlink.Acknowledge | netlink.Excl
	m := socket.Request(unix.NFNL_SUBSYS_IPSET, cmdDestroy, flags, unix.AF_INET, func(e *attr.Encoder) {
		e.Uint8(attrProto, setProtocol)
		e.String(attrSetName, name)
	})
	return socket.Ask(conn, m, func(netlink.Message) error { return nil })
}
