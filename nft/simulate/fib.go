package simulate

import (
	"errors"
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

const errInterfaceType = undecidedError("a match of the type of an address of one interface")

func (w *walk) fib(e *expr.Fib) (verdict, error) {
	a := w.frame.destination().Addr()
	if e.FlagSADDR {
		a = w.frame.source().Addr()
	}
	switch {
	case e.ResultADDRTYPE:
		kind, err := w.addressType(a)
		if (e.FlagIIF || e.FlagOIF) && kind == unix.RTN_LOCAL {
			return verdictBreak, errInterfaceType
		}
		w.reason.fib = a
		return verdictContinue, errors.Join(err, w.regs.load(e.Register, known(nativeBytes(kind))))
	case e.ResultOIF, e.ResultOIFNAME:
		out, err := w.routeOf(a, e)
		if err != nil {
			return verdictBreak, err
		}
		return verdictContinue, w.regs.load(e.Register, fibResult(out, e))
	}
	return verdictBreak, undecidedError("fib of another kind")
}

// routeOf returns the interface towards an address; the zero value if there is none, or if
// it is not the required one.
func (w *walk) routeOf(a netip.Addr, e *expr.Fib) (Link, error) {
	if w.frame.in.Name == loopback && w.record.hook.isInput() {
		return w.frame.in, nil // nft_fib_can_skip
	}
	query := RouteQuery{To: a}
	if e.FlagMARK {
		query.Mark = w.frame.mark
	}
	r, err := w.route(query)
	wanted := Link{}
	switch {
	case errors.Is(err, ErrNoRoute) || err == nil && r.Local:
		return Link{}, nil
	case err != nil:
		return Link{}, err
	case e.FlagIIF:
		wanted = w.frame.in
	case e.FlagOIF:
		wanted = w.frame.out
	}
	if wanted != (Link{}) && wanted != r.Out {
		return Link{}, nil
	}
	return r.Out, nil
}

// loopback is the name of the loopback interface, which cannot be changed.
const loopback = "lo"

// isInput reports whether packets at the hook have come in by an interface, and are not routed
// on.
func (h Hook) isInput() bool { return h == HookIngress || h == HookPrerouting || h == HookInput }

func fibResult(out Link, e *expr.Fib) value {
	switch {
	case e.FlagPRESENT && out.Index != 0:
		return known([]byte{1})
	case e.FlagPRESENT:
		return known([]byte{0})
	case e.ResultOIFNAME:
		return known(interfaceName(out.Name))
	}
	return known(nativeBytes(uint32(out.Index)))
}
