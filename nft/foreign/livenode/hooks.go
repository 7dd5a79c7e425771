package livenode

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
)

// Of linux/netfilter/nfnetlink_hook.h (Linux 5.14).
const (
	hookGet = 0 // NFNL_MSG_HOOK_GET

	hookNumber    = 1 // NFNLA_HOOK_HOOKNUM
	hookPriority  = 2 // NFNLA_HOOK_PRIORITY
	hookFunction  = 4 // NFNLA_HOOK_FUNCTION_NAME
	hookModule    = 5 // NFNLA_HOOK_MODULE_NAME
	hookChainInfo = 6 // NFNLA_HOOK_CHAIN_INFO

	chainInfoDesc = 1 // NFNLA_HOOK_INFO_DESC
	chainTable    = 1 // NFNLA_CHAIN_TABLE
	chainName     = 3 // NFNLA_CHAIN_NAME
)

var hookNames = [...]string{
	unix.NF_INET_PRE_ROUTING: "prerouting", unix.NF_INET_LOCAL_IN: "input", unix.NF_INET_FORWARD: "forward",
	unix.NF_INET_LOCAL_OUT: "output", unix.NF_INET_POST_ROUTING: "postrouting",
}

var errNoHooks = errors.New("this kernel has no nfnetlink_hook (CONFIG_NETFILTER_NETLINK_HOOK)")

// hookTexts returns what is registered at the hooks of a family, in the order in which packets pass it:
// the priority, the function with its module, and the chain of nf_tables.
func hookTexts(f uint8) (out []string, err error) {
	conn, err := socket.Open(0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for hook, name := range hookNames {
		request := socket.Request(unix.NFNL_SUBSYS_HOOK, hookGet, netlink.Dump, f, func(e *attr.Encoder) {
			e.Uint32(hookNumber, uint32(hook))
		})
		err := socket.Ask(conn, request, func(m netlink.Message) error {
			text, err := hookText(m.Data)
			out = append(out, name+" "+text)
			return err
		})
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
			return out, errNoHooks
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// hookText decodes a message about a function at a hook: "-100 nft_nat_do_chain [nft_chain_nat] chain
// nat-prerouting of table kube-vmap".
func hookText(message []byte) (string, error) {
	var d attr.Decoder
	list := d.Body(message)
	text := fmt.Sprintf("%d %s", int32(d.Uint32(d.Find(list, hookPriority))), attr.String(d.Find(list, hookFunction)))
	if module := d.Find(list, hookModule); module != nil {
		text += " [" + attr.String(module) + "]"
	}
	if chain := d.Find(d.Find(list, hookChainInfo), chainInfoDesc); chain != nil {
		text += fmt.Sprintf(" chain %s of table %s", attr.String(d.Find(chain, chainName)),
			attr.String(d.Find(chain, chainTable)))
	}
	return text, d.Err()
}
