package kubeproxy

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
)

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
