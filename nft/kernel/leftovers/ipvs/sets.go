package ipvs

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// maxSetName is the longest name that the kernel gives a set (IPSET_MAXNAMELEN
// less its zero byte).
const maxSetName = 31

// IPSetNames are the sets of kube-proxy's ipvs mode, of both families
// (pkg/proxy/ipvs/ipset.go of Kubernetes 1.36).
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

// Numbers of ipset's netlink protocol (include/uapi/linux/netfilter/ipset/ip_set.h).
const (
	setProtocol = 6                    // IPSET_PROTOCOL_MIN, which every kernel speaks
	cmdDestroy  = 3                    // IPSET_CMD_DESTROY
	attrProto   = 1                    // IPSET_ATTR_PROTOCOL
	attrSetName = 2                    // IPSET_ATTR_SETNAME
	errSetInUse = unix.Errno(4096 + 4) // IPSET_ERR_BUSY
)

// A rule that was just deleted holds its sets until the kernel has torn it down
// in the background: for so long sets in use are tried again, all together.
const (
	maxDestroyTries = 100
	destroyPause    = 10 * time.Millisecond
)

// RemoveIPSets removes the sets and returns the names of those that were there. A
// set that a rule of somebody else reads stays, and is an error.
func RemoveIPSets(netNS int) (removed []string, err error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: netNS})
	if err != nil {
		return nil, fmt.Errorf("open a netfilter socket: %w", err)
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
		err = errors.Join(err, fmt.Errorf("remove ipsets %s, which rules of others read: %w", strings.Join(busy, ", "), unix.EBUSY))
	}
	return removed, err
}

// destroy asks to be told if there is no such set.
func destroy(conn *netlink.Conn, name string) error {
	ae := netlink.NewAttributeEncoder()
	ae.Uint8(attrProto, setProtocol)
	ae.String(attrSetName, name)
	attributes, err := ae.Encode()
	if err != nil {
		return err
	}
	_, err = conn.Execute(netlink.Message{
		Header: netlink.Header{
			Type:  unix.NFNL_SUBSYS_IPSET<<8 | cmdDestroy,
			Flags: netlink.Request | netlink.Acknowledge | netlink.Excl,
		},
		Data: append([]byte{unix.AF_INET, unix.NFNETLINK_V0, 0, 0}, attributes...),
	})
	return err
}
