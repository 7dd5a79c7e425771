package cluster

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	stdsync "sync"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"kube-vmap/sync/source/cluster/protobuf"
)

// A codec decodes objects of one kind in protobuf to converted objects, one by one:
// neither the API object nor a list of them is ever in memory. All else, such as JSON and
// errors, is decoded as client-go does.
type codec struct {
	runtime.NegotiatedSerializer // client-go's
	kind                         schema.GroupVersionKind
	convert                      convertFunc

	mu      stdsync.Mutex // a watch may begin while the one before decodes its last object
	decoder *protobuf.Decoder
}

// newCodec returns a codec for a store's objects, which are Services or EndpointSlices.
func newCodec(version schema.GroupVersion, to *store) *codec {
	return &codec{
		NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
		kind:                 version.WithKind(to.kind), convert: to.convert, decoder: protobuf.NewDecoder(),
	}
}

// SupportedMediaTypes implements [runtime.NegotiatedSerializer].
func (c *codec) SupportedMediaTypes() []runtime.SerializerInfo {
	types := slices.Clone(c.NegotiatedSerializer.SupportedMediaTypes())
	for i := range types {
		t := &types[i]
		if t.MediaType == runtime.ContentTypeProtobuf {
			stream := *t.StreamSerializer
			stream.Serializer, stream.Framer = eventSerializer{stream.Serializer}, bufferedFramer{stream.Framer}
			t.Serializer, t.StreamSerializer = objectSerializer{t.Serializer, c}, &stream
		}
	}
	return types
}

// An objectSerializer decodes objects of the codec's kind, and lists of them.
type objectSerializer struct {
	runtime.Serializer
	*codec
}

// Decode implements [runtime.Decoder].
func (s objectSerializer) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object,
	*schema.GroupVersionKind, error,
) {
	version, kind, message, ok := protobuf.Unwrap(data)
	if ok && into == nil && version == s.kind.GroupVersion().String() {
		switch kind {
		case s.kind.Kind:
			o, err := s.object(message)
			return o, &s.kind, err
		case s.kind.Kind + "List":
			o, err := s.list(message)
			return o, &s.kind, err
		}
	}
	return s.Serializer.Decode(data, defaults, into)
}

func (c *codec) object(message []byte) (*convertedObject, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var o any
	var err error
	if c.kind.Kind == "Service" {
		o, err = c.decoder.Service(message)
	} else {
		o, err = c.decoder.Slice(message)
	}
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", c.kind.Kind, err)
	}
	return c.convert(o)
}

func (c *codec) list(message []byte) (runtime.Object, error) {
	list := &metainternalversion.List{}
	err := protobuf.List(message, &list.ListMeta, func(message []byte) error {
		o, err := c.object(message)
		list.Items = append(list.Items, o)
		return err
	})
	return list, err
}

// An eventSerializer decodes events of watches without copying their objects: the object
// is decoded before the next event is read.
type eventSerializer struct{ runtime.Serializer }

// Decode implements [runtime.Decoder].
func (s eventSerializer) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object,
	*schema.GroupVersionKind, error,
) {
	event, ok := into.(*metav1.WatchEvent)
	if !ok {
		return s.Serializer.Decode(data, defaults, into)
	}
	return event, defaults, protobuf.Event(data, event)
}

// A bufferedFramer reads what has arrived, up to streamBuffer bytes. The framer alone reads
// twice for each event, and HTTP/2 sends a packet for every 4 KB that were read.
type bufferedFramer struct{ runtime.Framer }

const streamBuffer = 64 << 10

// NewFrameReader implements [runtime.Framer].
func (f bufferedFramer) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	return f.Framer.NewFrameReader(struct {
		io.Reader
		io.Closer
	}{bufio.NewReaderSize(r, streamBuffer), r})
}
