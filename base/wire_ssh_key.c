#include "base/wire_ssh_int.h"

#include "base/hash.h"
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_LENGTH_MAX 16384	/* an RSA key of 16384 bits is 2.8 KB */

char *key_canonical(ssh_key key)
{
	const char *type = ssh_key_type_to_char(ssh_key_type(key));
	char *base64 = NULL;
	char *out = NULL;

	if (!type || ssh_pki_export_pubkey_base64(key, &base64) != SSH_OK)
		return NULL;
	if (asprintf(&out, "%s %s", type, base64) < 0)
		out = NULL;
	ssh_string_free_char(base64);
	return out;
}

int key_fingerprint(ssh_key key,
    char fingerprint[static SSH_FINGERPRINT_SIZE], struct err *e)
{
	unsigned char *hash = NULL;
	size_t size = 0;
	char *text = NULL;

	if (ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash,
	    &size) == SSH_OK)
		text = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256,
		    hash, size);
	ssh_clean_pubkey_hash(&hash);
	if (!text)
		return err_set(e, ERR_NO_MEMORY, "no fingerprint of a key");
	snprintf(fingerprint, SSH_FINGERPRINT_SIZE, "%s", text);
	ssh_string_free_char(text);
	return 0;
}

/* For keys with a passphrase: nobody is asked. */
static int no_passphrase(const char *prompt, char *buf, size_t len, int echo,
    int verify, void *userdata)
{
	(void)prompt;
	(void)buf;
	(void)len;
	(void)echo;
	(void)verify;
	(void)userdata;
	return -1;
}

int key_from_text(ssh_key *out, const char *text, struct err *e)
{
	if (ssh_pki_import_privkey_base64(text, NULL, no_passphrase, NULL,
	    out) != SSH_OK)
		return err_set(e, ERR_DENIED, "not a private key in OpenSSH "
		    "format, or protected by a passphrase");
	return 0;
}

static int generate(ssh_key *key, struct err *e)
{
	if (ssh_pki_generate(SSH_KEYTYPE_ED25519, 0, key) != SSH_OK)
		return err_set(e, ERR_NO_MEMORY, "no new ed25519 key");
	return 0;
}

static int private_text(char **out, ssh_key key, struct err *e)
{
	char *text = NULL;

	if (ssh_pki_export_privkey_base64(key, NULL, NULL, NULL, &text) !=
	    SSH_OK)
		return err_set(e, ERR_NO_MEMORY, "no text of a private key");
	*out = strdup(text);
	secret_wipe(text, strlen(text));
	ssh_string_free_char(text);
	if (!*out)
		return err_set(e, ERR_NO_MEMORY, "no memory for a key");
	return 0;
}

int ssh_key_generate_text(char **private_out, struct err *e)
{
	ssh_key key = NULL;
	int rc;

	if (generate(&key, e) != 0)
		return -1;
	rc = private_text(private_out, key, e);
	ssh_key_free(key);
	return rc;
}

static void text_free(char *text)
{
	if (text)
		secret_wipe(text, strlen(text));
	free(text);
}

/* O_EXCL: a key that is there is never overwritten. */
static int write_new(const char *path, mode_t mode, const char *text,
    struct err *e)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	int rc = -1;

	if (fd < 0) {
		err_os(e, errno, "create %s", path);
		if (errno == EEXIST)
			e->code = ERR_EXISTS;
		return -1;
	}
	if (io_write_all(fd, text, strlen(text), path, e) != 0)
		goto out;
	if (fchmod(fd, mode) != 0 || fsync(fd) != 0) {
		err_os(e, errno, "write %s", path);
		goto out;
	}
	rc = 0;
out:
	close(fd);
	if (rc != 0)
		unlink(path);
	return rc;
}

static int write_pair(const char *path, const char *private,
    const char *public, struct err *e)
{
	char *pub_path = NULL;
	int rc = -1;

	if (asprintf(&pub_path, "%s.pub", path) < 0)
		return err_set(e, ERR_NO_MEMORY, "no memory for a path");
	if (write_new(path, 0600, private, e) == 0) {
		/* The public part follows from the private one: an old file
		 * beside a new key can only be a leftover. */
		unlink(pub_path);
		rc = write_new(pub_path, 0644, public, e);
		if (rc != 0)
			unlink(path);
	}
	free(pub_path);
	return rc;
}

int ssh_key_generate(const char *path, const char *comment, struct err *e)
{
	char *private = NULL, *canonical = NULL, *public = NULL;
	ssh_key key = NULL;
	int rc = -1;

	if (generate(&key, e) != 0)
		return -1;
	if (private_text(&private, key, e) != 0)
		goto out;
	canonical = key_canonical(key);
	if (!canonical || asprintf(&public, "%s %s\n", canonical,
	    comment ? comment : "") < 0) {
		public = NULL;
		err_set(e, ERR_NO_MEMORY, "no memory for a key");
		goto out;
	}
	rc = write_pair(path, private, public, e);
out:
	text_free(private);
	free(public);
	free(canonical);
	ssh_key_free(key);
	return rc;
}

static int bad_line(struct err *e)
{
	return err_set(e, ERR_USAGE, "not a public key in OpenSSH format "
	    "(\"ssh-ed25519 AAAA... comment\")");
}

/* `words`: the line, which is cut in place into type and base64. */
static int parse_words(ssh_key *key, char *words, struct err *e)
{
	char *type = words + strspn(words, " \t");
	char *base64 = type + strcspn(type, " \t\r\n");
	enum ssh_keytypes_e number;

	if (*base64 == '\0')
		return bad_line(e);
	*base64++ = '\0';
	base64 += strspn(base64, " \t");
	base64[strcspn(base64, " \t\r\n")] = '\0';
	number = ssh_key_type_from_name(type);
	if (number == SSH_KEYTYPE_UNKNOWN || *base64 == '\0' ||
	    ssh_pki_import_pubkey_base64(base64, number, key) != SSH_OK)
		return bad_line(e);
	return 0;
}

int ssh_public_key_parse(const char *line, char **canonical,
    char fingerprint[static SSH_FINGERPRINT_SIZE], struct err *e)
{
	ssh_key key = NULL;
	char *words, *text;
	int rc;

	if (strlen(line) > LINE_LENGTH_MAX)
		return bad_line(e);
	words = strdup(line);
	if (!words)
		return err_set(e, ERR_NO_MEMORY, "no memory for a key");
	rc = parse_words(&key, words, e);
	free(words);
	if (rc != 0)
		return -1;
	text = key_canonical(key);
	rc = text ? key_fingerprint(key, fingerprint, e) :
	    err_set(e, ERR_NO_MEMORY, "no memory for a key");
	ssh_key_free(key);
	if (rc != 0) {
		free(text);
		return -1;
	}
	*canonical = text;
	return 0;
}

int ssh_private_key_fingerprint(const char *text,
    char fingerprint[static SSH_FINGERPRINT_SIZE], struct err *e)
{
	ssh_key key = NULL;
	int rc;

	if (key_from_text(&key, text, e) != 0)
		return -1;
	rc = key_fingerprint(key, fingerprint, e);
	ssh_key_free(key);
	return rc;
}
