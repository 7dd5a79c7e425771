package attr

// Userdata returns the value of a kind in the user data of an nf_tables object, or nil. User
// data is opaque to the kernel; nft writes it as a list of type, length (one byte each) and
// value.
func Userdata(b []byte, kind byte) []byte {
	for len(b) >= 2 {
		n := 2 + int(b[1])
		if len(b) < n {
			return nil
		}
		if b[0] == kind {
			return b[2:n:n]
		}
		b = b[n:]
	}
	return nil
}

// CommentTag is the type of a comment in the user data of tables, rules and elements
// (NFTNL_UDATA_TABLE_COMMENT, NFTNL_UDATA_RULE_COMMENT, NFTNL_UDATA_SET_ELEM_COMMENT).
const CommentTag = 0

// MaxComment is the length in bytes of the longest comment that nft writes.
const MaxComment = 128

// Comment appends user data with a comment, as nft writes it: type, length, text and a final
// zero. The text has at most [MaxComment] bytes.
func (e *Encoder) Comment(kind uint16, text string) {
	at := e.Open(kind)
	e.Bytes = append(append(append(e.Bytes, CommentTag, byte(len(text)+1)), text...), 0)
	e.Close(at)
}
