package wire

import (
	"golang.org/x/sys/unix"

	"kube-vmap/nft"
)

func (e *encoder) addSet(o nft.AddSet) {
	e.setID++
	e.open(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, o.Set.Family)
	e.String(unix.NFTA_SET_TABLE, e.table)
	e.String(unix.NFTA_SET_NAME, o.Set.Name())
	e.Uint32(unix.NFTA_SET_ID, e.setID)
	e.shape(o.Set.Shape(o.Size))
	if timeout := o.Set.Layout().Expires(); timeout > 0 {
		e.Uint64(unix.NFTA_SET_TIMEOUT, uint64(timeout.Milliseconds()))
	}
	switch l := o.Set.Layout(); {
	case l.Typeof:
		e.Data(unix.NFTA_SET_USERDATA, typeofUserdata(o.Set))
	case l.Content == nft.ContentNumber:
		e.Data(unix.NFTA_SET_USERDATA, tlv(udataDataOrder, native(hostOrder)))
	}
	if list := o.Set.Layout().Expressions; list != nil {
		at := e.OpenNested(attrSetExpressions)
		for _, x := range list {
			e.expression(o.Set.Family, x, o.Set.Name())
		}
		e.Close(at)
	}
	e.CloseMessage()
}

// attrSetExpressions is NFTA_SET_EXPRESSIONS.
const attrSetExpressions = 18

// shape declares types, flags and size of a set.
func (e *encoder) shape(s nft.SetShape) {
	e.Uint32(unix.NFTA_SET_FLAGS, s.Flags)
	e.Uint32(unix.NFTA_SET_KEY_TYPE, s.KeyType)
	e.Uint32(unix.NFTA_SET_KEY_LEN, s.KeyLen)
	if s.Flags&unix.NFT_SET_MAP != 0 {
		e.Uint32(unix.NFTA_SET_DATA_TYPE, s.DataType)
		e.Uint32(unix.NFTA_SET_DATA_LEN, s.DataLen)
	}
	if s.Size == 0 {
		return
	}
	at := e.OpenNested(unix.NFTA_SET_DESC)
	e.Uint32(unix.NFTA_SET_DESC_SIZE, s.Size)
	e.Close(at)
}
