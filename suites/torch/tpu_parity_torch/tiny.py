"""A language model of two layers and a tokenizer of a few words, which the suites of training libraries share."""

import tokenizers
import torch
import transformers

VOCABULARY = 64
WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "sat",
    "ran",
    "on",
    "under",
    "mat",
    "tree",
    "and",
    "then",
    "saw",
    "big",
    "small",
    "red",
    "blue",
    "it",
    "was",
    "good",
    "bad",
    ".",
    "?",
    "yes",
    "no",
]
SPECIAL = ("<unk>", "<pad>", "<s>", "</s>")


def config(width: int = 32) -> transformers.LlamaConfig:
    """Attention is written out: the default one is a kernel of its own on a TPU, which the suite `kernels` looks at."""
    return transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        unk_token_id=0,
        pad_token_id=1,
        bos_token_id=2,
        eos_token_id=3,
        attn_implementation="eager",
        use_cache=False,
    )


def llama(width: int = 32) -> transformers.LlamaForCausalLM:
    return transformers.LlamaForCausalLM(config(width))


def classifier() -> transformers.LlamaForSequenceClassification:
    """The same with one score for a text, as reward models have."""
    shape = config()
    shape.num_labels = 1
    return transformers.LlamaForSequenceClassification(shape)


def tokenizer() -> transformers.PreTrainedTokenizerFast:
    """One token a word."""
    words = {word: number for number, word in enumerate((*SPECIAL, *WORDS))}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token=SPECIAL[0]))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    names = dict(zip(("unk_token", "pad_token", "bos_token", "eos_token"), SPECIAL, strict=True))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=model, model_max_length=64, **names)


def tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(len(SPECIAL), VOCABULARY, (batch, length))
